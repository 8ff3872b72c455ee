package suite

// uncovered says why a row has no case.
var uncovered = map[string]string{}
