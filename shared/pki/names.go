package pki

import (
	"encoding/asn1"
	"fmt"
	"strconv"
	"strings"
)

// extensionOIDs are the extensions that an operator may allow, under the names
// of magnum.conf [x509] allowed_extensions.
var extensionOIDs = map[string]asn1.ObjectIdentifier{
	"authorityInfoAccess":    {1, 3, 6, 1, 5, 5, 7, 1, 1},
	"OCSPNoCheck":            {1, 3, 6, 1, 5, 5, 7, 48, 1, 5},
	"subjectKeyIdentifier":   {2, 5, 29, 14},
	"keyUsage":               {2, 5, 29, 15},
	"subjectAltName":         {2, 5, 29, 17},
	"issuerAltName":          {2, 5, 29, 18},
	"basicConstraints":       {2, 5, 29, 19},
	"nameConstraints":        {2, 5, 29, 30},
	"cRLDistributionPoints":  {2, 5, 29, 31},
	"certificatePolicies":    {2, 5, 29, 32},
	"authorityKeyIdentifier": {2, 5, 29, 35},
	"extendedKeyUsage":       {2, 5, 29, 37},
	"inhibitAnyPolicy":       {2, 5, 29, 54},
}

// extensionName is what a person calls an extension, or its number if nobody
// has a name for it (B76).
func extensionName(oid asn1.ObjectIdentifier) string {
	for name, known := range extensionOIDs {
		if known.Equal(oid) {
			return name
		}
	}
	return oid.String()
}

// keyUsages are the usages of keyUsage by their bit (RFC 5280 §4.2.1.3), under
// the names of magnum.conf [x509] allowed_key_usage.
var keyUsages = []string{
	"Digital Signature", "Non Repudiation", "Key Encipherment", "Data Encipherment",
	"Key Agreement", "Certificate Sign", "CRL Sign", "Encipher Only", "Decipher Only",
}

const (
	keyCertSign = 5
	cRLSign     = 6
)

// purposes are the extended key usages that have a name in openssl.
var purposes = map[string]string{
	"any":             "2.5.29.37.0",
	"serverAuth":      "1.3.6.1.5.5.7.3.1",
	"clientAuth":      "1.3.6.1.5.5.7.3.2",
	"codeSigning":     "1.3.6.1.5.5.7.3.3",
	"emailProtection": "1.3.6.1.5.5.7.3.4",
	"timeStamping":    "1.3.6.1.5.5.7.3.8",
	"OCSPSigning":     "1.3.6.1.5.5.7.3.9",
}

// purposeOID reads the name of a purpose, or its dotted number.
func purposeOID(name string) (string, error) {
	if oid, ok := purposes[name]; ok {
		return oid, nil
	}
	parts := strings.Split(name, ".")
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 10, 31); err != nil || len(parts) < 2 {
			return "", fmt.Errorf("%q is neither a known purpose nor an object identifier", name)
		}
	}
	return name, nil
}

// purposeName is the reverse of purposeOID.
func purposeName(oid string) string {
	for name, known := range purposes {
		if known == oid {
			return name
		}
	}
	return oid
}
