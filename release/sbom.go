package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// component is one of a CycloneDX bill of materials.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Purl    string `json:"purl,omitempty"`
}

// sbom writes what a program is made of, as the program itself says it.
func (r *release) sbom(program, system, arch string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	parts := []component{goModule("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, goModule(m.Path, m.Version))
	}
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.time.Format("2006-01-02T15:04:05Z"),
			"component": component{Type: "application", Ref: "covey", Name: "covey", Version: r.version},
		},
		"components": parts,
	}, "", "  ")
	if err != nil {
		return err
	}
	name := strings.Join([]string{"covey", r.version, system, arch}, "-") + ".cdx.json"
	return os.WriteFile(filepath.Join(r.out, name), append(text, '\n'), 0o644)
}

func goModule(path, version string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: "library", Ref: purl, Name: path, Version: version, Purl: purl}
}
