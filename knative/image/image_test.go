package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const limit = 60 << 20

// commit is the source of the last commit, which nobody edits meanwhile.
func commit(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	export := exec.Command("sh", "-c", `git -C ../.. archive HEAD | tar -x -C "$0"`, dir)
	if out, err := export.CombinedOutput(); err != nil {
		t.Fatalf("git archive: %v %s", err, out)
	}
	return dir
}

// buildImage makes the image in a folder and reads it back.
func buildImage(t *testing.T, o options) (v1.Image, string) {
	t.Helper()
	o.platforms, o.tags, o.layout = "linux/amd64", "latest", t.TempDir()
	var out bytes.Buffer
	if err := run(context.Background(), o, &out); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(o.layout)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, strings.TrimSpace(out.String())
}

func TestTheImage(t *testing.T) {
	sbom := t.TempDir()
	source := commit(t)
	image, ref := buildImage(t, options{checkout: source, sbom: sbom})
	again, refAgain := buildImage(t, options{checkout: source})

	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := again.Digest(); d != digest {
		t.Errorf("built twice, it is %s and %s", digest, d)
	}
	if !strings.HasSuffix(ref, "@"+digest.String()) || ref[strings.Index(ref, "@"):] != refAgain[strings.Index(refAgain, "@"):] {
		t.Errorf("printed %s and %s", ref, refAgain)
	}

	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != user {
		t.Errorf("it runs as %q", config.Config.User)
	}

	files := map[string][]byte{}
	r := mutate.Extract(image)
	defer r.Close()
	size := 0
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		files["/"+strings.TrimPrefix(h.Name, "/")] = b
		size += len(b)
	}
	t.Logf("%d files, %.1f MiB unpacked", len(files), float64(size)/(1<<20))
	if size > limit {
		t.Errorf("it is %d bytes unpacked", size)
	}
	if !bytes.Contains(files["/etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")) {
		t.Error("it trusts nobody")
	}

	program := files[config.Config.Entrypoint[0]]
	e, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatalf("%s: %v", config.Config.Entrypoint, err)
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program is not static")
		}
	}

	b, err := os.ReadFile(filepath.Join(sbom, "carafe-linux-amd64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct{ Packages []struct{ Name string } }
	if err := json.Unmarshal(b, &bom); err != nil {
		t.Fatal(err)
	}
	named := false
	for _, p := range bom.Packages {
		named = named || p.Name == "github.com/jackc/pgx/v5"
	}
	if !named {
		t.Errorf("the SBOM's %d packages lack pgx", len(bom.Packages))
	}
}

func TestItSaysWhatItMisses(t *testing.T) {
	t.Setenv("KO_DOCKER_REPO", "")
	if _, err := publisherFor(options{}); err == nil || !strings.Contains(err.Error(), "KO_DOCKER_REPO") {
		t.Errorf("without a destination: %v", err)
	}
}
