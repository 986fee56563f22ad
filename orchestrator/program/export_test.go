package program

// WithoutName is withoutName, for systems that have no files in memory.
var WithoutName = withoutName
