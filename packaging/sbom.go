package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// sbom returns the bill of materials of the program, in CycloneDX's JSON format. It has no serial number, because the
// number would differ in each build.
func (p *program) sbom(parts []part) (file, error) {
	content, err := os.ReadFile(p.path)
	if err != nil {
		return file{}, err
	}
	self := component(part{name: "mailroom", version: p.info.Main.Version, licence: "MIT",
		purl: purl("golang", p.info.Main.Path, p.info.Main.Version)})
	self.Type = cyclonedx.ComponentTypeApplication
	self.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256,
		Value: fmt.Sprintf("%x", sha256.Sum256(content))}}
	var settings []cyclonedx.Property
	for _, s := range p.info.Settings {
		settings = append(settings, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	self.Properties = &settings

	var components []cyclonedx.Component
	var refs []string
	for _, m := range parts {
		components = append(components, component(m))
		refs = append(refs, m.purl)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: p.at.UTC().Format(time.RFC3339), Component: &self}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	var b bytes.Buffer
	// Version 1.6 is the newest that most tools can read.
	err = cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cyclonedx.SpecVersion1_6)
	return file{path: p.name() + ".cdx.json", data: b.Bytes()}, err
}

func component(m part) cyclonedx.Component {
	choice := cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: m.licence}}
	if strings.Contains(m.licence, " ") {
		choice = cyclonedx.LicenseChoice{Expression: m.licence}
	}
	return cyclonedx.Component{
		BOMRef: m.purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.name, Version: m.version, PackageURL: m.purl,
		Licenses: &cyclonedx.Licenses{choice},
	}
}
