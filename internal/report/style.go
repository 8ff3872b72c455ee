package report

// Style says whether text may be coloured. Colour never carries a meaning that the letters do not.
type Style struct{ Color bool }

// paint is a meaning as a terminal shows it.
type paint string

const (
	plain   paint = ""
	bold    paint = "1"
	dim     paint = "2"
	bad     paint = "31"
	badBold paint = "1;31"
	good    paint = "32"
	warning paint = "33"
	noted   paint = "36"
)

func (s Style) paint(p paint, text string) string {
	if !s.Color || p == plain || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// severityPaint and severityLetter are how a severity looks.
func severityPaint(severity string) paint {
	switch severity {
	case "error":
		return bad
	case "warning":
		return warning
	}
	return noted
}

func severityLetter(severity string) string {
	switch severity {
	case "error":
		return "E"
	case "warning":
		return "W"
	}
	return "N"
}
