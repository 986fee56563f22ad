package person

// Sweep is sweepAll, which Start runs in a daemon.
var Sweep = sweepAll
