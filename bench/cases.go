package main

// cases lists every case, in the order of the report. Each stands in a file of its own, with its contestants.
var cases = []Case{}
