package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// image is the program for one architecture, as an image of nothing else.
type image struct{ program, arch string }

// descriptor names a blob of a layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const ociType = "application/vnd.oci.image."

// blobs are the files of an OCI image layout.
type blobs struct{ files []entry }

func (b *blobs) put(mediaType string, text []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	b.files = append(b.files, entry{"blobs/sha256/" + sum, 0o644, text})
	return descriptor{MediaType: ociType + mediaType, Digest: "sha256:" + sum, Size: len(text)}
}

func (b *blobs) putJSON(mediaType string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	return b.put(mediaType, text), err
}

// layout writes an OCI image layout as a tar, with an image of each program.
func (r *release) layout(images []image) error {
	if len(images) == 0 {
		return nil
	}
	var all blobs
	var manifests []descriptor
	for _, i := range images {
		d, err := r.image(&all, i)
		if err != nil {
			return err
		}
		d.Platform = map[string]string{"os": "linux", "architecture": i.arch}
		manifests = append(manifests, d)
	}
	index, err := all.putJSON("index.v1+json", map[string]any{"schemaVersion": 2, "mediaType": ociType + "index.v1+json", "manifests": manifests})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": "covey:" + r.version}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{index}})
	if err != nil {
		return err
	}
	all.files = append(all.files, entry{"index.json", 0o644, top}, entry{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	slices.SortFunc(all.files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	if err := tarred(&b, all.files, r.time); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "covey-"+r.version+"-oci.tar"), b.Bytes(), 0o644)
}

// image puts the layer, the configuration and the manifest of one image.
func (r *release) image(all *blobs, i image) (descriptor, error) {
	program, err := os.ReadFile(i.program)
	if err != nil {
		return descriptor{}, err
	}
	var layer, zipped bytes.Buffer
	err = tarred(&layer, []entry{
		{"tmp/", fs.ModeDir | fs.ModeSticky | 0o777, nil},
		{"usr/", fs.ModeDir | 0o755, nil},
		{"usr/bin/", fs.ModeDir | 0o755, nil},
		{"usr/bin/peer", 0o755, program},
		{"var/", fs.ModeDir | 0o755, nil},
		{"var/lib/", fs.ModeDir | 0o755, nil},
		{"var/lib/covey/", fs.ModeDir | 0o700, nil},
	}, r.time)
	if err != nil {
		return descriptor{}, err
	}
	if err := gzipped(&zipped, func(w io.Writer) error { _, err := w.Write(layer.Bytes()); return err }); err != nil {
		return descriptor{}, err
	}
	at := r.time.Format("2006-01-02T15:04:05Z")
	config, err := all.putJSON("config.v1+json", map[string]any{
		"architecture": i.arch, "os": "linux", "created": at,
		"config": map[string]any{
			"Entrypoint": []string{"/usr/bin/peer"}, "Cmd": []string{"up"}, "Env": []string{"PATH=/usr/bin:/bin", "PEER_DATA=/var/lib/covey"},
			"Volumes": map[string]any{"/var/lib/covey": struct{}{}}, "ExposedPorts": map[string]any{"26839/tcp": struct{}{}, "26839/udp": struct{}{}},
			"Labels": map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
		"history": []map[string]any{{"created": at, "created_by": "covey " + r.version}},
	})
	if err != nil {
		return descriptor{}, err
	}
	return all.putJSON("manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": ociType + "manifest.v1+json", "config": config,
		"layers": []descriptor{all.put("layer.v1.tar+gzip", zipped.Bytes())},
	})
}
