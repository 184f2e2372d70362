module github.com/lockstead/lockstead/pkg/adapters

go 1.26.0

replace github.com/lockstead/lockstead/pkg => ../
