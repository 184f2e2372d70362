module github.com/lockstead/lockstead

go 1.26.0

require (
	github.com/lockstead/lockstead/pkg v0.0.0
	github.com/lockstead/lockstead/pkg/lockstead v0.0.0
)

replace (
	github.com/lockstead/lockstead/pkg => ./pkg
	github.com/lockstead/lockstead/pkg/lockstead => ./pkg/lockstead
)
