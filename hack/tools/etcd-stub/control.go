package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// memberView is one member in the answers of the control API.
type memberView struct {
	Name string `json:"name"`
	// Hexadecimal as etcdctl shows it: JSON numbers are too small for it in most languages.
	ID    string `json:"id"`
	Alive bool   `json:"alive"`
}

// clusterView is the answer of the control API.
type clusterView struct {
	// The node whose member leads; empty without a quorum.
	Leader  string       `json:"leader"`
	Members []memberView `json:"members"`
}

// controlHandler lets whoever plays the nodes say which of them run an etcd member: PUT /members replaces the list,
// GET /members shows the cluster. Plain HTTP, for loopback only.
func controlHandler(membership *Membership) http.Handler {
	mux := http.NewServeMux()
	show := func(response http.ResponseWriter) {
		view := membership.View("")
		shown := clusterView{Members: []memberView{}}
		for _, member := range view.Members {
			shown.Members = append(shown.Members,
				memberView{Name: member.Name, ID: fmt.Sprintf("%x", member.ID), Alive: view.Alive[member.Name]})
			if member.ID == view.Leader {
				shown.Leader = member.Name
			}
		}
		response.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(response).Encode(shown) // fails only when the caller has gone
	}
	mux.HandleFunc("GET /members", func(response http.ResponseWriter, _ *http.Request) { show(response) })
	mux.HandleFunc("PUT /members", func(response http.ResponseWriter, request *http.Request) {
		var nodes []Node
		decoder := json.NewDecoder(http.MaxBytesReader(response, request.Body, 1<<20))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&nodes); err != nil {
			http.Error(response, "want a list of {name, alive}: "+err.Error(), http.StatusBadRequest)
			return
		}
		for _, node := range nodes {
			if node.Name == "" {
				http.Error(response, "a node has no name", http.StatusBadRequest)
				return
			}
		}
		membership.SetNodes(nodes)
		show(response)
	})
	return mux
}
