package api

import (
	"strconv"
	"strings"
)

// acceptsJSON reports whether application/json may be sent (spec/api.md §3.2).
// A header that is no list of media ranges counts as none.
func acceptsJSON(values []string) bool {
	if len(values) == 0 {
		return true
	}
	header := values[0]
	switch header {
	case "", "*/*", "application/json":
		return true
	}
	if len(values) > 1 {
		header = strings.Join(values, ",")
	}
	best, quality := -1, 1.0 // how exactly the best range names us, and its q
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		mediaRange, parameters, _ := strings.Cut(one, ";")
		main, sub, ok := strings.Cut(strings.TrimSpace(mediaRange), "/")
		if !ok || main == "" || sub == "" {
			return true
		}
		exact := -1
		switch {
		case strings.EqualFold(main, "application") && strings.EqualFold(sub, "json"):
			exact = 2
		case strings.EqualFold(main, "application") && sub == "*":
			exact = 1
		case main == "*" && sub == "*":
			exact = 0
		}
		if exact > best {
			best, quality = exact, qualityOf(parameters)
		}
	}
	return best >= 0 && quality > 0
}

func qualityOf(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(key), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return q
			}
		}
	}
	return 1
}
