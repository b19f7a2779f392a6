package capi

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var testTime = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func conditionOf(name string, status metav1.ConditionStatus, generation int64, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, ObservedGeneration: generation, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(testTime)}
}

// resting are the conditions of an object that has come to rest.
func resting(generation int64) []metav1.Condition {
	out := []metav1.Condition{conditionOf("Available", metav1.ConditionTrue, generation, "Available", "")}
	for _, name := range []string{"RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting"} {
		out = append(out, conditionOf(name, metav1.ConditionFalse, generation, "Not"+name, ""))
	}
	return out
}
