module github.com/lockstead/lockstead/pkg

go 1.26.0
