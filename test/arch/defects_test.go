package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheTableOfDefectsNamesTests: every test that functions/README.md names
// for a mended defect exists.
func TestTheTableOfDefectsNamesTests(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	table, err := os.ReadFile(filepath.Join(root, "functions", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (PB-\d+) .* (Test\w+) \|$`).FindAllStringSubmatch(string(table), -1)
	if len(rows) < 40 {
		t.Fatalf("only %d rows", len(rows))
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
		if !strings.Contains(code.String(), "func "+row[2]+"(") {
			t.Errorf("%s names %s, which does not exist", row[1], row[2])
		}
	}
}
