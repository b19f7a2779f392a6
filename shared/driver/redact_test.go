package driver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretsNeverPrint(t *testing.T) {
	const marked = "marked-secret"
	desired := Cluster{
		Certificates: &Certificates{Kubernetes: KeyPair{Key: []byte(marked)}, Client: KeyPair{Key: []byte(marked)}},
		Credential:   &Credential{ID: "id", Secret: marked},
	}
	var out bytes.Buffer
	for _, v := range []any{desired, &desired, *desired.Certificates, desired.Certificates, desired.Certificates.Client, *desired.Credential, desired.Credential} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	for _, leak := range []string{marked, fmt.Sprintf("%x", marked), "109 97 114 107"} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("%q was printed: %s", leak, &out)
		}
	}
}
