package flows

var checks = []Check{}
