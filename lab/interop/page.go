package interop

import (
	"fmt"
	"os"
	"strings"

	"github.com/rocescope/rocescope/lab"
)

// WritePage writes the page of the results.
func WritePage(file string, image *lab.Image, results []Result) error {
	return os.WriteFile(file, []byte(page(image, results)), 0o644)
}

func page(image *lab.Image, results []Result) string {
	return fmt.Sprint(len(results))
}

var _ = strings.Join
