package pki

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"

	"carafe/shared/fault"
)

// filter gives the extensions that the certificate takes over from the request.
// One that is not allowed is dropped, unless it is critical: then the requester
// could not live without it and the request is refused.
func (r rules) filter(kind Kind, requested []pkix.Extension) ([]pkix.Extension, error) {
	var kept []pkix.Extension
	for _, e := range requested {
		name := extensionName(e.Id)
		if name == "subjectKeyIdentifier" || name == "authorityKeyIdentifier" {
			continue // always ours (PB-60, PB-65)
		}
		if !r.extensions[e.Id.String()] {
			if e.Critical {
				return nil, notAllowed(name)
			}
			continue
		}
		var keep bool
		var err error
		switch name {
		case "keyUsage":
			e, keep, err = r.filterKeyUsage(e)
		case "basicConstraints":
			e, keep, err = r.filterBasicConstraints(e)
		case "extendedKeyUsage":
			e, keep, err = r.filterPurposes(kind, e)
		default:
			keep = true
		}
		if err != nil {
			return nil, err
		}
		if keep {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

// filterKeyUsage clears the bits that are not allowed. With none left the
// extension goes: an empty one is forbidden by RFC 5280.
func (r rules) filterKeyUsage(e pkix.Extension) (pkix.Extension, bool, error) {
	var bits asn1.BitString
	if err := unmarshal(e, &bits); err != nil {
		return e, false, err
	}
	var kept asn1.BitString
	kept.Bytes = make([]byte, 2)
	for bit := range bits.BitLength {
		if bits.At(bit) == 0 {
			continue
		}
		if bit >= len(keyUsages) || r.keyUsage&(1<<bit) == 0 {
			if e.Critical {
				return e, false, notAllowed("keyUsage")
			}
			continue
		}
		kept.Bytes[bit/8] |= 0x80 >> (bit % 8)
		kept.BitLength = bit + 1
	}
	if kept.BitLength == 0 {
		return e, false, nil
	}
	kept.Bytes = kept.Bytes[:(kept.BitLength+7)/8]
	value, err := asn1.Marshal(kept)
	e.Value = value
	return e, true, err
}

// filterBasicConstraints makes an authority into a plain certificate.
func (r rules) filterBasicConstraints(e pkix.Extension) (pkix.Extension, bool, error) {
	var constraints struct {
		IsCA       bool `asn1:"optional"`
		MaxPathLen int  `asn1:"optional,default:-1"`
	}
	if err := unmarshal(e, &constraints); err != nil {
		return e, false, err
	}
	if !constraints.IsCA || r.allowCA {
		return e, true, nil
	}
	if e.Critical {
		return e, false, notAllowed("basicConstraints")
	}
	e.Value = []byte{0x30, 0x00} // an empty sequence: CA is false
	return e, true, nil
}

// filterPurposes takes away the purposes that this authority does not vouch
// for. If none is left the request is refused: a certificate without the
// extension would be good for every purpose.
func (r rules) filterPurposes(kind Kind, e pkix.Extension) (pkix.Extension, bool, error) {
	var requested []asn1.ObjectIdentifier
	if err := unmarshal(e, &requested); err != nil {
		return e, false, err
	}
	kept := slices.Clone(requested)
	kept = slices.DeleteFunc(kept, func(oid asn1.ObjectIdentifier) bool { return !r.purposes[kind][oid.String()] })
	if len(kept) == len(requested) && len(kept) > 0 {
		return e, true, nil
	}
	if e.Critical || len(kept) == 0 {
		for _, oid := range requested {
			if !r.purposes[kind][oid.String()] {
				return e, false, fault.New(fault.Invalid, "Extension 'extendedKeyUsage' not allowed: the %s CA does not sign for %s.",
					kind, purposeName(oid.String()))
			}
		}
		return e, false, malformed(e, nil)
	}
	value, err := asn1.Marshal(kept)
	e.Value = value
	return e, true, err
}

func notAllowed(name string) error {
	return fault.New(fault.Invalid, "Extension '%s' not allowed", name)
}

func malformed(e pkix.Extension, cause error) error {
	return invalidRequest("the extension "+extensionName(e.Id)+" is malformed", cause)
}

// unmarshal reads the whole value of an extension.
func unmarshal(e pkix.Extension, into any) error {
	rest, err := asn1.Unmarshal(e.Value, into)
	if err != nil || len(rest) > 0 {
		return malformed(e, err)
	}
	return nil
}
