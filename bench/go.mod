module mailroom/bench

go 1.26

require mailroom v0.0.0

replace mailroom => ../
