package function

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Rest time.Duration `envconfig:"CARAFE_TEST_REST" default:"5s"`
}

type settings struct {
	Count    int           `envconfig:"CARAFE_TEST_COUNT" default:"3"`
	Wait     time.Duration `envconfig:"CARAFE_TEST_WAIT" default:"90s"`
	On       bool          `envconfig:"CARAFE_TEST_ON"`
	Names    []string      `envconfig:"CARAFE_TEST_NAMES" default:"a,b"`
	Level    slog.Level    `envconfig:"CARAFE_TEST_LEVEL" default:"info"`
	Password string        `envconfig:"CARAFE_TEST_PASSWORD" required:"true"`
	Inner    inner
	refuse   error
}

func (s *settings) Validate() error { return s.refuse }

func TestReadConfig(t *testing.T) {
	t.Setenv("CARAFE_TEST_PASSWORD", "secret")
	t.Setenv("CARAFE_TEST_COUNT", "7")
	t.Setenv("CARAFE_TEST_REST", "1m")
	var s settings
	if err := ReadConfig(&s); err != nil {
		t.Fatal(err)
	}
	if s.Count != 7 || s.Wait != 90*time.Second || strings.Join(s.Names, " ") != "a b" || s.Inner.Rest != time.Minute || s.Password != "secret" {
		t.Errorf("%+v", s)
	}
	s.refuse = errors.New("CARAFE_TEST_COUNT must be even")
	if err := ReadConfig(&s); err == nil || err.Error() != s.refuse.Error() {
		t.Errorf("Validate is not asked: %v", err)
	}
}

func TestReadConfigNamesAllProblems(t *testing.T) {
	t.Setenv("CARAFE_TEST_COUNT", "many")
	t.Setenv("CARAFE_TEST_WAIT", "soon")
	t.Setenv("CARAFE_TEST_ON", "perhaps")
	t.Setenv("CARAFE_TEST_LEVEL", "loud")
	t.Setenv("CARAFE_TEST_REST", "never")
	err := ReadConfig(&settings{})
	if err == nil {
		t.Fatal("accepted")
	}
	want := []string{
		`CARAFE_TEST_COUNT is "many": it takes a whole number`,
		`CARAFE_TEST_WAIT is "soon": it takes a duration such as 90s or 5m`,
		`CARAFE_TEST_ON is "perhaps": it takes true or false`,
		`CARAFE_TEST_LEVEL is "loud": it takes debug, info, warn or error`,
		`CARAFE_TEST_PASSWORD is not set`,
		`CARAFE_TEST_REST is "never": it takes a duration such as 90s or 5m`,
	}
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}
