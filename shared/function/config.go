package function

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/kelseyhightower/envconfig"
)

// ReadConfig fills the struct that c points to from the environment, as its
// envconfig tags say, and then asks its Validate method, if it has one. The error
// names all that is wrong, a line each; it never shows a secret.
func ReadConfig(c any) error {
	errs := readFields(reflect.ValueOf(c).Elem())
	if v, ok := c.(interface{ Validate() error }); ok && len(errs) == 0 {
		errs = append(errs, v.Validate())
	}
	return errors.Join(errs...)
}

// readFields reads one field after the other: envconfig ends at the first that
// is malformed, and a person wants to know them all.
func readFields(s reflect.Value) []error {
	var errs []error
	for i := range s.NumField() {
		field, value := s.Type().Field(i), s.Field(i)
		if !field.IsExported() {
			continue
		}
		if value.Kind() == reflect.Struct && field.Tag.Get("envconfig") == "" {
			errs = append(errs, readFields(value)...)
			continue
		}
		alone := reflect.New(reflect.StructOf([]reflect.StructField{{Name: field.Name, Type: field.Type, Tag: field.Tag}}))
		if err := envconfig.Process("", alone.Interface()); err != nil {
			errs = append(errs, problem(field, err))
			continue
		}
		value.Set(alone.Elem().Field(0))
	}
	return errs
}

// problem says what is wrong with one setting.
func problem(field reflect.StructField, err error) error {
	key := field.Tag.Get("envconfig")
	given, set := os.LookupEnv(key)
	if !set || given == "" {
		return fmt.Errorf("%s is not set", key)
	}
	wants := map[string]string{
		"time.Duration": "a duration such as 90s or 5m",
		"bool":          "true or false",
		"slog.Level":    "debug, info, warn or error",
		"[]int":         "whole numbers separated by commas",
	}[field.Type.String()]
	switch field.Type.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if wants == "" {
			wants = "a whole number"
		}
	case reflect.Float32, reflect.Float64:
		wants = "a number"
	case reflect.Map:
		wants = "name:value pairs separated by commas"
	}
	var parse *envconfig.ParseError
	switch {
	case wants != "":
		return fmt.Errorf("%s is %q: it takes %s", key, given, wants)
	case errors.As(err, &parse):
		// The value stays out of sight: only its own type knows whether it is secret.
		return fmt.Errorf("%s: %s", key, strings.ReplaceAll(parse.Err.Error(), "\n", " "))
	default:
		return fmt.Errorf("%s: %w", key, err)
	}
}
