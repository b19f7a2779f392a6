package api

import (
	"context"
	"strconv"
	"strings"
)

// Version is a microversion.
type Version struct{ Major, Minor int }

// The range that the service answers in (magnum 23.0.0).
var (
	MinVersion = Version{1, 1}
	MaxVersion = Version{1, 14}
)

// ServiceType is how answers name the service, whatever alias was asked for.
const ServiceType = "container-infrastructure-management"

// serviceTypes are compared with their letter case.
var serviceTypes = [...]string{ServiceType, "container-infrastructure", "container-infra"}

const versionHeader = "Openstack-Api-Version"

// String is the version as the header shows it.
func (v Version) String() string { return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) }

// Less orders by major and minor number.
func (v Version) Less(o Version) bool {
	return v.Major < o.Major || v.Major == o.Major && v.Minor < o.Minor
}

// AtLeast reports whether v is 1.minor or later.
func (v Version) AtLeast(minor int) bool { return !v.Less(Version{1, minor}) }

// VersionOf is the version that the request asked for; 1.1 outside of a request.
func VersionOf(ctx context.Context) Version {
	if rq := requestOf(ctx); rq != nil {
		return rq.version
	}
	return MinVersion
}

// Texts T1 to T4 of spec/api.md §1.5.
const (
	textServiceType   = "Invalid service type for OpenStack-API-Version header"
	textVersionValue  = "Invalid value for OpenStack-API-Version header"
	textMajor         = "Mutually exclusive versions requested. Version %s requested but not supported by this service. The supported version range is: [%s, %s]."
	textMinor         = "Version %s was requested but the minor version is not supported by this service. The supported version range is: [%s, %s]."
	textNotInVersion  = "Version %s was requested but the requested API %s is not supported for this version."
	textNotAcceptable = "The service can only answer with application/json."
)

// negotiate reads the values of OpenStack-API-Version. shown is what the
// response headers print: also a version that is refused.
func negotiate(values []string) (v Version, shown string, err error) {
	if len(values) == 0 {
		return MinVersion, MinVersion.String(), nil
	}
	header := values[0]
	if len(values) > 1 {
		header = strings.Join(values, ",")
	}
	service, version, ok := "", "", false
	if strings.IndexByte(header, ',') < 0 {
		service, version, ok = twoFields(header)
		if !ok || !isOurs(service) { // B03: the service first, also for latest
			return MinVersion, MinVersion.String(), &routeFault{status: 406, text: textServiceType}
		}
	} else {
		// B05: of a list for several services ours counts, the others do not.
		for entry := range strings.SplitSeq(header, ",") {
			s, val, two := twoFields(entry)
			if !two {
				return MinVersion, MinVersion.String(), &routeFault{status: 406, text: textServiceType}
			}
			if !ok && isOurs(s) {
				version, ok = val, true
			}
		}
		if !ok {
			return MinVersion, MinVersion.String(), nil
		}
	}
	if strings.EqualFold(version, "latest") {
		return MaxVersion, MaxVersion.String(), nil
	}
	v, shown, ok = parseVersion(version)
	if !ok {
		return MinVersion, MinVersion.String(), &routeFault{status: 406, text: textVersionValue}
	}
	if v.Major != 1 {
		return v, shown, &versionFault{format: textMajor, asked: shown}
	}
	if v.Less(MinVersion) || MaxVersion.Less(v) {
		return v, shown, &versionFault{format: textMinor, asked: shown}
	}
	return v, shown, nil
}

func isOurs(service string) bool {
	for _, s := range serviceTypes {
		if s == service {
			return true
		}
	}
	return false
}

// twoFields splits exactly two words.
func twoFields(s string) (first, second string, ok bool) {
	s = strings.TrimSpace(s)
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return "", "", false
	}
	first, second = s[:i], strings.TrimLeft(s[i:], " \t")
	return first, second, second != "" && !strings.ContainsAny(second, " \t\r\n\v\f")
}

// parseVersion reads two decimal integers with signs and leading zeros, and
// gives them back as Magnum prints them: 1.05 is 1.5.
func parseVersion(s string) (v Version, shown string, ok bool) {
	major, minor, ok := strings.Cut(s, ".")
	if !ok {
		return v, "", false
	}
	var a, b string
	if v.Major, a, ok = decimal(major); !ok {
		return v, "", false
	}
	if v.Minor, b, ok = decimal(minor); !ok {
		return v, "", false
	}
	return v, a + "." + b, true
}

// decimal reads an integer of any length; one that does not fit is the largest.
func decimal(s string) (n int, shown string, ok bool) {
	negative := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, "", false
	}
	if s = strings.TrimLeft(s, "0"); s == "" {
		return 0, "0", true
	}
	if len(s) > 9 {
		n = 1 << 30
	} else {
		n, _ = strconv.Atoi(s) // nine digits always fit
	}
	if negative {
		return -n, "-" + s, true
	}
	return n, s, true
}
