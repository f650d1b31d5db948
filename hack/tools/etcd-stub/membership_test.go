package main

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// nodes are alive, but for those whose name begins with "!".
func nodes(names ...string) []Node {
	var list []Node
	for _, name := range names {
		if name[0] == '!' {
			list = append(list, Node{Name: name[1:]})
		} else {
			list = append(list, Node{Name: name, Alive: true})
		}
	}
	return list
}

func membershipOf(lists ...[]Node) *Membership {
	membership := NewMembership()
	for _, list := range lists {
		membership.SetNodes(list)
	}
	return membership
}

func (m *Membership) leaderName() string {
	view := m.View("")
	for _, member := range view.Members {
		if member.ID == view.Leader {
			return member.Name
		}
	}
	return ""
}

func (m *Membership) memberNames() string {
	names := ""
	for _, member := range m.View("").Members {
		names += member.Name
	}
	return names
}

func (m *Membership) id(t *testing.T, name string) uint64 {
	t.Helper()
	for _, member := range m.View("").Members {
		if member.Name == name {
			return member.ID
		}
	}
	t.Fatalf("%s is no member", name)
	return 0
}

func TestWhoIsMemberAndWhoLeads(t *testing.T) {
	for name, test := range map[string]struct {
		lists           [][]Node
		members, leader string
	}{
		"nobody yet":                         {nil, "", ""},
		"the first leads":                    {[][]Node{nodes("a")}, "a", "a"},
		"a dead node founds nothing":         {[][]Node{nodes("!a")}, "", ""},
		"others join":                        {[][]Node{nodes("a"), nodes("a", "b", "c")}, "abc", "a"},
		"all at once":                        {[][]Node{nodes("a", "b", "c")}, "abc", "a"},
		"a dead member stays, another leads": {[][]Node{nodes("a", "b", "c"), nodes("!a", "b", "c")}, "abc", "b"},
		"so does one that is left out":       {[][]Node{nodes("a", "b", "c"), nodes("b", "c")}, "abc", "b"},
		"the leader keeps its lead":          {[][]Node{nodes("a", "b", "c"), nodes("b", "c"), nodes("a", "b", "c")}, "abc", "b"},
		"no quorum, no leader":               {[][]Node{nodes("a", "b", "c"), nodes("c")}, "abc", ""},
		"half is no quorum":                  {[][]Node{nodes("a", "b"), nodes("a")}, "ab", ""},
		"without a quorum nobody joins":      {[][]Node{nodes("a", "b"), nodes("a", "!b", "c")}, "ab", ""},
		"once it is back, others may":        {[][]Node{nodes("a", "b"), nodes("a"), nodes("a", "b", "c")}, "abc", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			membership := membershipOf(test.lists...)
			if got := membership.memberNames(); got != test.members {
				t.Errorf("members are %q, want %q", got, test.members)
			}
			if got := membership.leaderName(); got != test.leader {
				t.Errorf("leader is %q, want %q", got, test.leader)
			}
		})
	}
}

func TestARemovedMemberComesBackOnlyAsANewOne(t *testing.T) {
	membership := membershipOf(nodes("a", "b", "c"))
	old := membership.id(t, "a")
	if err := membership.Remove(old); err != nil {
		t.Fatal(err)
	}
	membership.SetNodes(nodes("a", "b", "c"))
	if got := membership.memberNames(); got != "bc" {
		t.Errorf("the node goes on running and its member is back: %s", got)
	}
	if membership.Answers("a") || !membership.Alive("a") {
		t.Error("the removed member answers, or its node is taken for dead")
	}
	if got := membership.leaderName(); got != "b" {
		t.Errorf("the leader was removed and %q leads, want b", got)
	}
	membership.SetNodes(nodes("b", "c"))
	membership.SetNodes(nodes("a", "b", "c"))
	if got := membership.memberNames(); got != "bca" {
		t.Errorf("a new node of the old name did not join: %s", got)
	}
	if membership.id(t, "a") == old {
		t.Error("the new member has the ID of the removed one")
	}
}

func TestARemovalThatCostsTheQuorumIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		lists  [][]Node
		remove string
		want   error
	}{
		"one of three":                        {[][]Node{nodes("a", "b", "c")}, "a", nil},
		"one of two":                          {[][]Node{nodes("a", "b")}, "b", nil},
		"the only one":                        {[][]Node{nodes("a")}, "a", rpctypes.ErrGRPCUnhealthy},
		"the dead one of three":               {[][]Node{nodes("a", "b", "c"), nodes("b", "c")}, "a", nil},
		"an alive one of three with one dead": {[][]Node{nodes("a", "b", "c"), nodes("b", "c")}, "b", rpctypes.ErrGRPCUnhealthy},
		"without a quorum":                    {[][]Node{nodes("a", "b", "c"), nodes("c")}, "a", rpctypes.ErrGRPCNoLeader},
	} {
		t.Run(name, func(t *testing.T) {
			membership := membershipOf(test.lists...)
			before := membership.memberNames()
			err := membership.Remove(membership.id(t, test.remove))
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if removed := membership.memberNames() != before; removed != (test.want == nil) {
				t.Errorf("members were %s and are %s", before, membership.memberNames())
			}
		})
	}
	if err := membershipOf(nodes("a", "b", "c")).Remove(1); !errors.Is(err, rpctypes.ErrGRPCMemberNotFound) {
		t.Errorf("an unknown member: %v", err)
	}
}

func TestTheLeadIsHandedOnByTheLeaderToAnAliveMember(t *testing.T) {
	membership := membershipOf(nodes("a", "b", "c"), nodes("a", "b"))
	b, c := membership.id(t, "b"), membership.id(t, "c")
	if err := membership.MoveLeader("b", b); !errors.Is(err, rpctypes.ErrGRPCNotLeader) {
		t.Errorf("asked of a follower: %v", err)
	}
	if err := membership.MoveLeader("a", c); !errors.Is(err, rpctypes.ErrGRPCBadLeaderTransferee) {
		t.Errorf("to a dead member: %v", err)
	}
	if err := membership.MoveLeader("a", b); err != nil || membership.leaderName() != "b" {
		t.Errorf("to b: %v, and %q leads", err, membership.leaderName())
	}
}
