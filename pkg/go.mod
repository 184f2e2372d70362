module github.com/lockstead/lockstead/pkg

go 1.26.0

require go.uber.org/goleak v1.3.0
