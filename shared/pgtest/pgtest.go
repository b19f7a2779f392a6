// Package pgtest gives each test a real PostgreSQL database of its own.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carafe/shared/postgres"
)

// Variable names the server: any database of it, with a user who may make others.
const Variable = "CARAFE_TEST_DATABASE_URL"

// template is migrated once in each test binary; tests get copies of it.
var template struct {
	sync.Once
	name string
	err  error
}

// New makes a migrated database and removes it when the test ends. It fails,
// and never skips, without a server.
func New(t testing.TB) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: URL(t), MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// URL makes a database as New does and gives its address, for a process that
// opens it itself.
func URL(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Fatalf("%s is not set: run the tests with make test, or go run ./test/withpostgres go test …", Variable)
	}
	template.Do(func() { template.name, template.err = migrated(server) })
	if template.err != nil {
		t.Fatal(template.err)
	}
	name := newName("test")
	if err := run(server, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY`, name, template.name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(server, fmt.Sprintf(`DROP DATABASE %s WITH (FORCE)`, name)); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return at(server, name)
}

// Empty makes a database without any table.
func Empty(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Fatalf("%s is not set: run the tests with make test", Variable)
	}
	name := newName("empty")
	if err := run(server, `CREATE DATABASE `+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run(server, fmt.Sprintf(`DROP DATABASE %s WITH (FORCE)`, name)) })
	return at(server, name)
}

// migrated makes the template. The name carries the process, so that test
// binaries that run side by side do not wait for each other; the server that
// make test starts is thrown away with all of them.
func migrated(server string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := newName("template")
	if err := run(server, `CREATE DATABASE `+name); err != nil {
		return "", err
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: at(server, name), MaxConns: 2})
	if err != nil {
		return "", err
	}
	defer db.Close()
	return name, db.Migrate(ctx)
}

func newName(kind string) string {
	return fmt.Sprintf("carafe_%s_%s", kind, strings.ReplaceAll(uuid.NewString(), "-", "")[:16])
}

// at gives the server's address with another database.
func at(server, name string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return server + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}

func run(server, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("reach the test server: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
