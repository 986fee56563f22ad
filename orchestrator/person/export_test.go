package person

// Sweep is sweepAll, which a daemon calls by Start.
var Sweep = sweepAll
