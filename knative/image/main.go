// Command image makes Carafe's image with ko, without a Docker daemon: the one static
// binary on nothing but certificates and a user, the same bytes from the same commit,
// with its SBOM beside it.
//
//	go run . -layout DIR                     an OCI layout
//	go run . -tarball FILE                   a tarball for ctr images import and the like
//	KO_DOCKER_REPO=registry.example/carafe go run .    to a registry
//
// It prints the image's reference, with its digest.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"
	"github.com/google/ko/pkg/publish"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	program = "ko://carafe/functions/carafe"
	user    = "65532:65532"
)

type options struct {
	checkout, layout, tarball, sbom, platforms, tags string
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.checkout, "checkout", "../..", "Carafe's `folder`")
	flag.StringVar(&o.layout, "layout", "", "write an OCI layout to this `folder`")
	flag.StringVar(&o.tarball, "tarball", "", "write a tarball to this `file`")
	flag.StringVar(&o.sbom, "sbom", "", "write the SBOM (SPDX) to this `folder` too")
	flag.StringVar(&o.platforms, "platforms", "linux/amd64", "`platforms`, separated by commas")
	flag.StringVar(&o.tags, "tags", "latest", "`tags`, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		log.Fatal("image: ", err)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	platforms := strings.Split(o.platforms, ",")
	base, err := baseFor(platforms)
	if err != nil {
		return fmt.Errorf("make the base: %w", err)
	}
	buildOptions := []build.Option{
		build.WithBaseImages(func(context.Context, string) (name.Reference, build.Result, error) {
			return name.MustParseReference("scratch"), base, nil
		}),
		build.WithPlatforms(platforms...),
		build.WithTrimpath(true),
		build.WithDefaultEnv([]string{"CGO_ENABLED=0"}),
		build.WithDefaultLdflags([]string{"-s", "-w"}),
		build.WithConfig(map[string]build.Config{}),
		build.WithUser(user),
		build.WithSPDX("1"),
		build.WithJobs(2),
	}
	if o.sbom != "" {
		buildOptions = append(buildOptions, build.WithSBOMDir(o.sbom))
	}
	builder, err := build.NewGo(ctx, o.checkout, buildOptions...)
	if err != nil {
		return err
	}
	image, err := builder.Build(ctx, program)
	if err != nil {
		return fmt.Errorf("build %s: %w", program, err)
	}
	if o.layout != "" {
		return writeLayout(o.layout, image, out)
	}
	publisher, err := publisherFor(o)
	if err != nil {
		return err
	}
	defer publisher.Close()
	ref, err := publisher.Publish(ctx, image, program)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	fmt.Fprintln(out, ref)
	return nil
}

func publisherFor(o options) (publish.Interface, error) {
	repo := os.Getenv("KO_DOCKER_REPO")
	tags := strings.Split(o.tags, ",")
	// The repository is named whole: one program needs no name of its own in it.
	bare := func(base, _ string) string { return base }
	switch {
	case o.tarball != "":
		return publish.NewTarball(o.tarball, cmp.Or(repo, "ko.local/carafe"), bare, tags), nil
	case repo != "":
		return publish.NewDefault(repo, publish.WithNamer(bare), publish.WithTags(tags), publish.WithAuthFromKeychain(authn.DefaultKeychain))
	}
	return nil, errors.New("set KO_DOCKER_REPO to a repository, or give -layout or -tarball")
}

// writeLayout puts the image alone into a folder: ko's own layout takes no path with
// capital letters.
func writeLayout(dir string, image build.Result, out io.Writer) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	switch i := image.(type) {
	case v1.Image:
		err = path.AppendImage(i)
	case v1.ImageIndex:
		err = path.AppendIndex(i)
	}
	if err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s@%s\n", dir, digest)
	return nil
}

// baseFor is what the binary stands on: for one platform an image, else an index.
func baseFor(platforms []string) (build.Result, error) {
	layer, err := baseLayer()
	if err != nil {
		return nil, err
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var image v1.Image
	for _, p := range platforms {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return nil, err
		}
		image = mutate.MediaType(empty.Image, types.OCIManifestSchema1)
		image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant})
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if len(platforms) == 1 {
		return image, nil
	}
	return index, nil
}

// baseLayer has what a static binary misses on an empty file system: the authorities
// that Mozilla trusts, a user that is not root, and a place for temporary files.
func baseLayer() (v1.Layer, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // those with a constraint mean nothing as plain PEM
			if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes()},
		{"tmp/", 0o1777, nil},
	} {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}
