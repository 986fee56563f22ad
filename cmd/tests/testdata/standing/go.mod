module standing

go 1.26
