module mailroom

go 1.26
