module github.com/lockstead/lockstead/hack/cluster

go 1.26.0
