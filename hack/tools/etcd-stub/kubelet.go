package main

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// The names of Kubernetes' port-forward protocol. Every forwarded connection is a pair of streams, errors and data.
const (
	portForwardProtocol = "portforward.k8s.io"
	streamType          = "streamType"
	dataStream          = "data"
)

// Kubelet is the port-forward of all control plane nodes' kubelets, for the static pods that the control plane provider
// talks to. A node's name is the end of its pods' names, so one address can serve for all of them.
type Kubelet struct {
	membership *Membership
	etcd       func(node string) (net.Conn, error)
	apiServer  func() (net.Conn, error)
}

// Handler serves /portForward/<namespace>/<pod>, the kubelet's own path.
func (k *Kubelet) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/kube-system/{pod}", k.portForward)
	return mux
}

// backend is how to reach what runs in the pod; nil when it does not run.
func (k *Kubelet) backend(pod string) func() (net.Conn, error) {
	if node, ok := strings.CutPrefix(pod, "etcd-"); ok && k.membership.Answers(node) {
		return func() (net.Conn, error) { return k.etcd(node) }
	}
	if node, ok := strings.CutPrefix(pod, "kube-apiserver-"); ok && k.membership.Alive(node) {
		return k.apiServer
	}
	return nil
}

func (k *Kubelet) portForward(response http.ResponseWriter, request *http.Request) {
	pod := request.PathValue("pod")
	dial := k.backend(pod)
	if dial == nil {
		http.Error(response, "pod "+pod+" does not run", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(request, response, []string{portForwardProtocol}); err != nil {
		log.Printf("port-forward to %s: handshake: %v", pod, err)
		return
	}
	streams := make(chan httpstream.Stream, 8)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(response, request,
		func(stream httpstream.Stream, _ <-chan struct{}) error {
			select {
			case streams <- stream:
				return nil
			default:
				return errors.New("too many streams at once")
			}
		})
	if connection == nil {
		return // the upgrader has answered
	}
	defer connection.Close()
	for {
		select {
		case stream := <-streams:
			if stream.Headers().Get(streamType) != dataStream {
				stream.Close() // there is never an error to report: what does not run was refused above
				continue
			}
			go forward(pod, stream, dial)
		case <-connection.CloseChan():
			return
		}
	}
}

// forward copies both ways until either side ends.
func forward(pod string, stream httpstream.Stream, dial func() (net.Conn, error)) {
	backend, err := dial()
	if err != nil {
		log.Printf("port-forward to %s: %v", pod, err)
		stream.Reset()
		return
	}
	// Whichever direction ends first takes the other with it: TLS and HTTP/2 have no use for half a connection.
	ended := make(chan struct{}, 2)
	copyAll := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from) // an error ends the connection just as its end does
		ended <- struct{}{}
	}
	go copyAll(backend, stream)
	go copyAll(stream, backend)
	<-ended
	backend.Close()
	stream.Reset()
	<-ended
}
