package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The bill of materials is an SPDX 2.3 document of the modules that the binary says are in it.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"name"`
		Version   string         `json:"versionInfo"`
		Location  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		Concluded string         `json:"licenseConcluded"`
		Declared  string         `json:"licenseDeclared"`
		Copyright string         `json:"copyrightText"`
		Checksums []spdxChecksum `json:"checksums,omitempty"`
		Refs      []spdxRef      `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// bill writes the document of one binary.
func (r *release) bill(base string, mods []module) ([]byte, error) {
	const none = "NOASSERTION"
	doc := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: base,
		Namespace: "https://github.com/rocescope/rocescope/sbom/" + base,
		Creation:  spdxCreation{r.stamp.time.Format(time.RFC3339), []string{"Tool: rocescope-dist"}},
		Packages: []spdxPackage{{
			ID: "SPDXRef-rocescope", Name: "rocescope", Version: r.name(), Location: none, Concluded: none, Declared: none, Copyright: none,
			Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/github.com/rocescope/rocescope@" + r.name()}},
		}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-rocescope"}},
	}
	for _, m := range mods {
		p := spdxPackage{
			ID: "SPDXRef-" + notInID.ReplaceAllString(m.path+"-"+m.version, "-"), Name: m.path, Version: m.version,
			Location: none, Concluded: none, Declared: none, Copyright: none,
			Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", fmt.Sprintf("pkg:golang/%s@%s", m.path, m.version)}},
		}
		// h1 is the SHA-256 of the list of the SHA-256 of the module's files, as go.sum has it.
		if sum, ok := strings.CutPrefix(m.sum, "h1:"); ok {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return nil, fmt.Errorf("%s: the checksum %s: %w", m.path, m.sum, err)
			}
			p.Checksums = []spdxChecksum{{"SHA256", hex.EncodeToString(raw)}}
		}
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelationship{"SPDXRef-rocescope", "STATIC_LINK", p.ID})
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}
