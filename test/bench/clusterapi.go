package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// clusterAPI has the Cluster API driver look at a thousand clusters in a real
// kube-apiserver. The first time, that is compiled: many minutes.
func (b *bench) clusterAPI(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "test/clusterapi/bench.sh")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, out, said.Bytes())
	}
	found := false
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		// BenchmarkObserveAll/asked=1000-2  1  … ns/op  1.2 s/observation  9.0 calls …
		name, values, ok := strings.Cut(lines.Text(), "\t")
		_, asked, of := strings.Cut(name, "BenchmarkObserveAll/asked=")
		if !ok || !of {
			continue
		}
		m := map[string]string{}
		fields := strings.Fields(values)
		for i := 1; i+1 < len(fields); i += 2 {
			m[fields[i+1]] = fields[i]
		}
		count, _, _ := strings.Cut(strings.TrimSpace(asked), "-")
		b.add(&b.standing, figure{fmt.Sprintf("one look of the Cluster API driver at %s of 1000 clusters", count),
			fmt.Sprintf("%s s (CPU %s s), %s calls, %s MiB at most", m["s/observation"], m["cpu-s"], m["calls"], m["MiB"])})
		found = true
	}
	if !found {
		return fmt.Errorf("no figures in\n%s", out)
	}
	return nil
}
