package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// defects is how many the specification counts.
const defects = 79

// TestTheTableOfDefectsNamesTests: functions/README.md has a row for each defect, and
// every test that it names exists; where there is none it says why.
func TestTheTableOfDefectsNamesTests(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	table, err := os.ReadFile(filepath.Join(root, "functions", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (PB-\d+) .* (?:(Test\w+)|—: [^|]+) \|$`).FindAllStringSubmatch(string(table), -1)
	for i := range defects {
		if want := fmt.Sprintf("PB-%02d", i+1); i >= len(rows) || rows[i][1] != want {
			t.Fatalf("the row of %s is missing, or says neither its test nor why there is none", want)
		}
	}
	var code strings.Builder
	for _, dir := range []string{"functions", "shared", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			code.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range rows {
		if row[2] != "" && !strings.Contains(code.String(), "func "+row[2]+"(") {
			t.Errorf("%s names %s, which does not exist", row[1], row[2])
		}
	}
}
