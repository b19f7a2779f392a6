package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ms prints a duration in milliseconds with three digits that count.
func ms(d time.Duration) string {
	v := float64(d) / float64(time.Millisecond)
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 10:
		return fmt.Sprintf("%.1f ms", v)
	case v >= 1:
		return fmt.Sprintf("%.2f ms", v)
	}
	return fmt.Sprintf("%.3f ms", v)
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// report writes the run as Markdown with plots, named by its day.
func (b *bench) report(dir string, facts []string) error {
	day := b.began.UTC().Format(time.DateOnly)
	var w strings.Builder
	fmt.Fprintf(&w, "# Measured on %s\n\n", day)
	for _, fact := range facts {
		fmt.Fprintf(&w, "- %s\n", fact)
	}
	fmt.Fprintf(&w, "- `make bench`, %.0f minutes; medians of %d runs of %s for each line of the first table\n", time.Since(b.began).Minutes(), b.runs, b.length)
	fmt.Fprintf(&w, "\n## Requests\n\nCPU is that of one request in Carafe and in PostgreSQL; create and resize at their function alone.\n\n")
	fmt.Fprintf(&w, "![requests per second](%[1]s-throughput.svg)\n![CPU per request](%[1]s-cpu.svg)\n![latency](%[1]s-latency.svg)\n\n", day)
	w.WriteString("| request | clients | per second | p50 | p99 | CPU Carafe | CPU PostgreSQL |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range b.rows {
		fmt.Fprintf(&w, "| %s | %d | %s | %s | %s | %s | %s |\n", r.name, r.clients, thousands(int(r.perSecond)), ms(r.p50), ms(r.p99), ms(r.carafe), ms(r.postgres))
	}
	fmt.Fprintf(&w, "\n## Physical limits\n\nAt %d clients. CPU of one: the limit's process and PostgreSQL together, and Carafe and PostgreSQL together.\n\n", limitClients)
	w.WriteString("| limit | per second | CPU | request | per second | CPU | share |\n|---|---:|---:|---|---:|---:|---:|\n")
	for _, l := range b.bounds {
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s | %s | %.0f %% |\n", l.what, thousands(int(l.theirs)), ms(l.cpu), l.of, thousands(int(l.ours)), ms(l.carafe), 100*l.ours/l.theirs)
	}
	for _, s := range []struct {
		title   string
		figures []figure
	}{
		{"Allocated per request, the server and the metrics included", b.allocated},
		{"Operations, all functions and the broker in one process", b.operations},
		{"Ticks and rest", b.standing},
		{"Cold start, PostgreSQL up and migrated", b.cold},
		{"Memory", b.memory},
	} {
		fmt.Fprintf(&w, "\n## %s\n\n| what | measured |\n|---|---|\n", s.title)
		for _, f := range s.figures {
			fmt.Fprintf(&w, "| %s | %s |\n", f.name, f.value)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string]string{day + ".md": w.String()}
	for name, plot := range b.plots() {
		files[day+"-"+name+".svg"] = plot
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	b.say("written to %s", filepath.Join(dir, day+".md"))
	return nil
}

// plots are SVG files by name, of the lines with limitClients clients.
func (b *bench) plots() map[string]string {
	var throughput, cpu, latency []bar
	for _, r := range b.rows {
		if r.clients != limitClients {
			continue
		}
		t := bar{label: r.name, parts: []float64{r.perSecond}, text: thousands(int(r.perSecond))}
		for _, l := range b.bounds {
			if l.of == r.name && t.mark == 0 {
				t.mark = l.theirs
			}
		}
		throughput = append(throughput, t)
		cpu = append(cpu, bar{label: r.name, parts: []float64{inMS(r.carafe), inMS(r.postgres)}, text: ms(r.carafe) + " + " + ms(r.postgres)})
		latency = append(latency, bar{label: r.name, parts: []float64{inMS(r.p50), inMS(r.p99 - r.p50)}, text: ms(r.p50) + ", " + ms(r.p99)})
	}
	at := fmt.Sprintf(", %d clients", limitClients)
	return map[string]string{
		"throughput": plot("Requests per second"+at, []string{"Carafe", "| physical limit"}, throughput),
		"cpu":        plot("CPU per request in ms"+at, []string{"Carafe", "PostgreSQL"}, cpu),
		"latency":    plot("Latency in ms"+at, []string{"p50", "p99"}, latency),
	}
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bar is a line of a plot: parts side by side, and a mark if it is not 0.
type bar struct {
	label string
	parts []float64
	mark  float64
	text  string
}

// plot draws bars. They share one scale, that of the longest.
func plot(title string, legend []string, bars []bar) string {
	const left, width, height, right = 190, 430, 24, 130
	colours := []string{"#2f6f9f", "#e0a040"}
	longest := 0.0
	for _, b := range bars {
		longest = max(longest, sum(b.parts), b.mark)
	}
	var w strings.Builder
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", left+width+right, height*(len(bars)+2)+8)
	fmt.Fprintf(&w, `<rect width="100%%" height="100%%" fill="white"/><text x="8" y="18" font-weight="bold">%s</text>`+"\n", title)
	for i, name := range legend {
		fmt.Fprintf(&w, `<text x="%d" y="18" fill="%s">%s</text>`+"\n", left+width/2+i*100, colours[i], name)
	}
	for i, b := range bars {
		y := height * (i + 1)
		fmt.Fprintf(&w, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+19, b.label)
		x := float64(left)
		for k, part := range b.parts {
			long := part / longest * width
			fmt.Fprintf(&w, `<rect x="%.1f" y="%d" width="%.1f" height="16" fill="%s"/>`, x, y+6, long, colours[k])
			x += long
		}
		if b.mark > 0 {
			fmt.Fprintf(&w, `<rect x="%.1f" y="%d" width="2" height="20" fill="%s"/>`, left+b.mark/longest*width, y+4, colours[1])
			x = max(x, left+b.mark/longest*width)
		}
		fmt.Fprintf(&w, `<text x="%.1f" y="%d" font-size="11">%s</text>`+"\n", x+6, y+18, b.text)
	}
	w.WriteString("</svg>\n")
	return w.String()
}

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}
