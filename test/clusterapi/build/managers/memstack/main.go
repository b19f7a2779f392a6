// Command memstack answers for Cluster API Provider OpenStack where there is no
// OpenStack: behind every OpenStackCluster and OpenStackMachine it keeps a
// DevCluster and a DevMachine of Cluster API's in-memory provider, so that the
// driver's own objects come up, and it shows faults on demand.
//
// The ConfigMap capi-system/memstack says which, read at every look:
//
//	server.<flavor>:      refuse:<message> | port:<message> | error
//	network.<cluster>:    <message>
//	endpoint.<cluster>:   <message>
//	credential.<cluster>: <message>
//	delete.<cluster>:     <message>: the network cannot be deleted
//	boot:                 how long a machine boots (1s)
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	health := flag.String("health-addr", "127.0.0.1:0", "where /readyz is served")
	flag.Parse()
	if err := run(*health); err != nil {
		log.Fatal(err)
	}
}

func run(health string) error {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: health,
		Metrics:                server.Options{BindAddress: "0"},
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	s := &stack{Client: m.GetClient(), live: m.GetAPIReader()}
	options := controller.Options{MaxConcurrentReconciles: 8}
	err = ctrl.NewControllerManagedBy(m).Named("openstackcluster").WithOptions(options).
		For(object(infrastructure, "OpenStackCluster")).
		Watches(object(infrastructure, "DevCluster"), handler.EnqueueRequestsFromMapFunc(sameName)).
		Complete(reconcile.Func(s.cluster))
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(m).Named("openstackmachine").WithOptions(options).
		For(object(infrastructure, "OpenStackMachine")).
		Watches(object(infrastructure, "DevMachine"), handler.EnqueueRequestsFromMapFunc(sameName)).
		Watches(object(core, "Machine"), handler.EnqueueRequestsFromMapFunc(infrastructureOf)).
		Complete(reconcile.Func(s.machine))
	if err != nil {
		return err
	}
	if err := m.AddReadyzCheck("ping", func(*http.Request) error { return nil }); err != nil {
		return err
	}
	if err := m.Start(ctrl.SetupSignalHandler()); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

func sameName(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

func infrastructureOf(_ context.Context, o client.Object) []reconcile.Request {
	name, _, _ := unstructured.NestedString(o.(*unstructured.Unstructured).Object, "spec", "infrastructureRef", "name")
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
