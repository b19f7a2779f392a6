package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// WriteJSON sends v with its length, so that the answer is complete for the
// client as soon as it is flushed, while the handler may go on (Flush). Its
// error is that v cannot be encoded; then nothing has been sent.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() < 1<<20 { // a rare huge page does not stay in the pool
			buffers.Put(buf)
		}
	}()
	buf.Reset()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	body := buf.Bytes()[:buf.Len()-1] // without the encoder's newline
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone: nobody to tell
	return nil
}

var jsonType = []string{"application/json"} // shared; nobody appends to it

// NoContent answers 204.
func NoContent(w http.ResponseWriter) error {
	w.Header()["Content-Length"] = []string{"0"} // as Magnum; net/http leaves it away
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Flush sends what has been written. With Content-Length given, the client has
// its whole answer while the handler still works.
func Flush(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }

// Time prints as Magnum does: UTC with an offset, microseconds only if there are any.
type Time time.Time

// TimeOf gives nil for nil.
func TimeOf(t *time.Time) *Time { return (*Time)(t) }

// MarshalJSON prints YYYY-MM-DDTHH:MM:SS[.ffffff]+00:00.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(`"2006-01-02T15:04:05.000000+00:00"`))
	u := time.Time(t).UTC()
	b = append(b, '"')
	if u.Nanosecond()/1000 == 0 {
		b = u.AppendFormat(b, "2006-01-02T15:04:05+00:00")
	} else {
		b = u.AppendFormat(b, "2006-01-02T15:04:05.000000+00:00")
	}
	return append(b, '"'), nil
}

// String is the JSON form without quotes.
func (t Time) String() string {
	b, _ := t.MarshalJSON() // never fails
	return string(b[1 : len(b)-1])
}

// Link is an entry of links.
type Link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
}

// Links are self and bookmark of one object; path is what stands between the
// application's URL and the id: "clusters", "clusters/<uuid>/nodegroups".
func Links(ctx context.Context, path, id string) []Link {
	app := URL(ctx)
	tail := "/" + path + "/" + id
	return []Link{{Href: app + "/v1" + tail, Rel: "self"}, {Href: app + tail, Rel: "bookmark"}}
}

// Accepted is the body of the writes that only name their object.
type Accepted struct {
	UUID string `json:"uuid"`
}
