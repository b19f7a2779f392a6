package api

import (
	"net/http"
	"strconv"
	"strings"

	"carafe/shared/fault"
)

// SetETag names the version of the row that the answer shows.
func SetETag(w http.ResponseWriter, version int64) {
	w.Header().Set("ETag", `"`+strconv.FormatInt(version, 10)+`"`)
}

// CheckIfMatch refuses a write that was meant for another version of the row
// (412). Without If-Match anything goes, as with Magnum. Call it with the row
// locked, or make the write conditional on the same version.
func CheckIfMatch(r *http.Request, version int64) error {
	values := r.Header["If-Match"]
	if len(values) == 0 {
		return nil
	}
	want := `"` + strconv.FormatInt(version, 10) + `"`
	for _, v := range values {
		for tag := range strings.SplitSeq(v, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || tag == want {
				return nil
			}
		}
	}
	return fault.New(fault.PreconditionFailed,
		"The object has changed: If-Match names %s, the object is at %s.", clip(strings.Join(values, ", ")), want)
}

// IdempotencyKey is the Idempotency-Key of a request; empty if there is none.
// One that is too long, or not printable ASCII, is a fault of the client.
func IdempotencyKey(r *http.Request) (string, error) {
	values := r.Header["Idempotency-Key"]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", fault.New(fault.Invalid, "Idempotency-Key is given more than once.")
	}
	key := strings.TrimSpace(values[0])
	// The draft standard makes it a quoted string; clients send it bare.
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if key == "" || len(key) > 255 {
		return "", fault.New(fault.Invalid, "Idempotency-Key must have 1 to 255 characters.")
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return "", fault.New(fault.Invalid, "Idempotency-Key must be printable ASCII.")
		}
	}
	return key, nil
}
