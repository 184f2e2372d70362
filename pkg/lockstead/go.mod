module github.com/lockstead/lockstead/pkg/lockstead

go 1.26.0

require github.com/lockstead/lockstead/pkg v0.0.0

replace github.com/lockstead/lockstead/pkg => ../
