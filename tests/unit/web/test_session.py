"""Sessions of the studio that several tabs of a browser share."""

from tests.unit.web.conftest import Run, in_world

TABS = """
  const me = { company_id: "c", scopes: [] };
  serve(() => Response.json(me));
  sessionStorage.clear();
  // Modules of another tab have storage of their own; here a module with another address stands for it.
  const channel = new BroadcastChannel("aes.studio.session");
  const told = [];
  channel.onmessage = ({ data }) => {
    told.push(data);
    if (data.ask && isOpen) channel.postMessage({ to: data.ask, given: { key: "aes_shared", keyId: null } });
  };
  let isOpen = false;
  const end = (found) => (channel.close(), sessionStorage.clear(), found);
"""


def test_a_new_tab_has_the_key_of_one_that_is_open(run: Run) -> None:
    asking = """
      await m.resume();
      const alone = m.session.value.state;
      await until(() => told.length);
      isOpen = true;
      await m.resume();
      // On a busy machine the answer is a late one.
      await until(() => m.session.value.state === "in");
      const { state } = m.session.value;
      const credential = m.credential();
      channel.postMessage({ ended: "aes_another" });
      await elapse(500);
      const others = m.session.value.state;
      channel.postMessage({ ended: "aes_shared" });
      await until(() => m.session.value.state === "out");
      return end({ alone, state, credential, others, left: m.credential(), problem: m.session.value.problem });
    """
    assert run("api/client.js", in_world(TABS + asking)) == {
        "alone": "out",
        "state": "in",
        "credential": {"x-api-key": "aes_shared"},
        "others": "in",
        "left": {},
        "problem": "You were signed out in another tab.",
    }


def test_a_tab_that_answers_late_is_heard(run: Run) -> None:
    asking = """
      await m.resume();
      const before = m.session.value.state;
      await until(() => told.length);
      channel.postMessage({ to: told[0].ask, given: { key: "aes_shared", keyId: null } });
      await until(() => m.session.value.state === "in");
      const signedIn = m.credential();
      await m.signOut();
      channel.postMessage({ to: told[0].ask, given: { key: "aes_shared", keyId: null } });
      await elapse(500);
      return end({ before, signedIn, after: m.session.value.state });
    """
    assert run("api/client.js", in_world(TABS + asking)) == {
        "before": "out",
        "signedIn": {"x-api-key": "aes_shared"},
        "after": "out",
    }


def test_who_signs_in_while_other_tabs_are_asked_stays_so(run: Run) -> None:
    meanwhile = """
      const asking = m.resume();
      await m.signIn("aes_own");
      await asking;
      const found = { state: m.session.value.state, credential: m.credential() };
      await m.signOut();
      return end(found);
    """
    found = run("api/client.js", in_world(TABS + meanwhile))
    assert found == {"state": "in", "credential": {"x-api-key": "aes_own"}}


def test_a_tab_answers_and_tells_when_it_signs_out(run: Run) -> None:
    answering = """
      await m.signIn("aes_own");
      channel.postMessage({ ask: "x" });
      await until(() => told.some(({ to }) => to === "x"));
      const { given } = told.find(({ to }) => to === "x");
      await m.signOut();
      await until(() => told.some(({ ended }) => ended === "aes_own"));
      channel.postMessage({ ask: "y" });
      await elapse(1_000);
      return end({ given, answersOutside: told.some(({ to }) => to === "y") });
    """
    assert run("api/client.js", in_world(TABS + answering)) == {
        "given": {"key": "aes_own", "keyId": None},
        "answersOutside": False,
    }
