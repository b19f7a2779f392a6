package conductor
type Secrets interface{}
