package main

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Node is a control plane node that ran an etcd member at some time.
type Node struct {
	Name string `json:"name"`
	// Alive says that the node and the etcd member on it answer.
	Alive bool `json:"alive"`
}

// Member is a voting member of the cluster; kubeadm names it after its node.
type Member struct {
	Name string
	ID   uint64
}

// Membership is what the members of one etcd cluster agree on: who belongs to it and who leads. Its rules are etcd's:
// whoever dies stays a member until somebody removes it, and without a quorum nothing is agreed on.
type Membership struct {
	mutex sync.Mutex
	// In the order of joining.
	members []Member
	alive   map[string]bool
	// Nodes whose member was removed: it does not come back by itself while its node goes on running.
	removed map[string]bool
	// How many members each name has had, so that a name that comes again gets another ID, as in etcd.
	joined    map[string]int
	clusterID uint64
	leader    uint64
	term      uint64
}

// NewMembership is a cluster without members.
func NewMembership() *Membership {
	return &Membership{alive: map[string]bool{}, removed: map[string]bool{}, joined: map[string]int{}}
}

// SetNodes replaces the nodes. An alive one that is new joins; members whose node is left out or not alive stay, dead.
func (m *Membership) SetNodes(nodes []Node) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	listed := map[string]bool{}
	clear(m.alive)
	for _, node := range nodes {
		listed[node.Name] = true
		m.alive[node.Name] = node.Alive
	}
	for name := range m.removed {
		if !listed[name] {
			delete(m.removed, name)
		}
	}
	m.elect()
	for _, node := range nodes {
		// The first member founds the cluster; every other needs the agreement of those that are there.
		agreed := len(m.members) == 0 || m.leader != 0
		if node.Alive && agreed && m.find(node.Name) == nil && !m.removed[node.Name] {
			m.join(node.Name)
			m.elect()
		}
	}
}

func (m *Membership) join(name string) {
	m.joined[name]++
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%d", name, m.joined[name])
	id := max(hash.Sum64(), 1) // zero means "nobody" in etcd's answers
	if m.clusterID == 0 {
		m.clusterID = id
	}
	m.members = append(m.members, Member{Name: name, ID: id})
}

// elect keeps the leader while it can lead; otherwise the longest-serving member that is alive takes over.
func (m *Membership) elect() {
	if !m.quorum() {
		m.leader = 0
		return
	}
	if slices.ContainsFunc(m.members, func(member Member) bool { return member.ID == m.leader && m.alive[member.Name] }) {
		return
	}
	for _, member := range m.members {
		if m.alive[member.Name] {
			m.leader = member.ID
			m.term++
			return
		}
	}
}

func (m *Membership) aliveMembers() int {
	count := 0
	for _, member := range m.members {
		if m.alive[member.Name] {
			count++
		}
	}
	return count
}

func (m *Membership) quorum() bool {
	return m.aliveMembers() > len(m.members)/2
}

func (m *Membership) find(name string) *Member {
	index := slices.IndexFunc(m.members, func(member Member) bool { return member.Name == name })
	if index < 0 {
		return nil
	}
	return &m.members[index]
}

// Alive says whether the node runs, whatever its etcd member does.
func (m *Membership) Alive(node string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.alive[node]
}

// Answers says whether an etcd member runs on the node: one that was removed stops by itself.
func (m *Membership) Answers(node string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.alive[node] && m.find(node) != nil
}

// View is a consistent look at the cluster, as the member on one node has it.
type View struct {
	ClusterID uint64
	// Self is zero where no member runs on the node that was asked.
	Self uint64
	// Leader is zero without a quorum.
	Leader  uint64
	Term    uint64
	Members []Member
	Alive   map[string]bool
}

// View is how the member on the node sees the cluster; the empty name is an onlooker's.
func (m *Membership) View(node string) View {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	view := View{ClusterID: m.clusterID, Leader: m.leader, Term: m.term, Members: slices.Clone(m.members), Alive: map[string]bool{}}
	for _, member := range m.members {
		view.Alive[member.Name] = m.alive[member.Name]
		if member.Name == node && m.alive[node] {
			view.Self = member.ID
		}
	}
	return view
}

// Remove takes a member out for good. As etcd does by default, it refuses what would leave the rest without a quorum.
func (m *Membership) Remove(id uint64) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !m.quorum() {
		return rpctypes.ErrGRPCNoLeader
	}
	index := slices.IndexFunc(m.members, func(member Member) bool { return member.ID == id })
	if index < 0 {
		return rpctypes.ErrGRPCMemberNotFound
	}
	name := m.members[index].Name
	rest := len(m.members) - 1
	if m.alive[name] && m.aliveMembers()-1 < 1+rest/2 {
		return rpctypes.ErrGRPCUnhealthy
	}
	m.members = slices.Delete(m.members, index, index+1)
	m.removed[name] = true
	m.elect()
	return nil
}

// MoveLeader hands the lead from the member on one node, which must have it, to another.
func (m *Membership) MoveLeader(from string, to uint64) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !m.quorum() {
		return rpctypes.ErrGRPCNoLeader
	}
	if self := m.find(from); self == nil || self.ID != m.leader {
		return rpctypes.ErrGRPCNotLeader
	}
	if !slices.ContainsFunc(m.members, func(member Member) bool { return member.ID == to && m.alive[member.Name] }) {
		return rpctypes.ErrGRPCBadLeaderTransferee
	}
	if m.leader != to {
		m.leader = to
		m.term++
	}
	return nil
}
