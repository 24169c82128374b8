"""Parts that a person sees, each by itself: files by drop and paste, a table of an artifact, who is signed in."""

from tests.unit.web.conftest import Run, drawn


def test_files_are_dropped(run: Run) -> None:
    dropped = """
      const added = [];
      const Zone = () => {
        const [over, drop] = m.useDrop((files) => added.push(...files.map(({ name }) => name)));
        return h("section", { class: over ? "over" : "", ...drop });
      };
      draw(Zone);
      const fire = (type, dataTransfer) => {
        const event = new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer });
        box.firstChild.dispatchEvent(event);
        return event.defaultPrevented;
      };
      const files = new DataTransfer();
      files.items.add(new File(["x"], "notes.md"));
      const text = new DataTransfer();
      text.setData("text/plain", "no file");
      fire("dragenter", files);
      await until(() => box.firstChild.className === "over");
      const isTaken = fire("drop", files);
      await until(() => box.firstChild.className === "");
      return end({ isTaken, isTextTaken: fire("drop", text), added });
    """
    assert run("studio/parts/hooks.js", drawn(dropped)) == {
        "isTaken": True,
        "isTextTaken": False,
        "added": ["notes.md"],
    }


def test_files_are_pasted_into_the_message_and_sent_with_it(run: Run) -> None:
    pasted = """
      const added = [];
      const sent = [];
      const artifact = { artifact_id: "a", name: "seen.png" };
      const files = [{ id: 1, name: "seen.png", state: "ready", artifact }];
      const add = (chosen) => added.push(...chosen.map(({ name }) => name));
      const attached = { all: files, add, clear: () => sent.push("clear") };
      const onSend = (text, ready) => sent.push([text, ready.map(({ name }) => name)]);
      draw(m.Composer, { text: "", onText: () => {}, files: attached, onSend });
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File(["x"], "shot.png", { type: "image/png" }));
      const field = box.querySelector("textarea");
      field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
      field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: new DataTransfer(), bubbles: true }));
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
      return end({ added, sent });
    """
    assert run("chat/composer.js", drawn(pasted)) == {
        "added": ["shot.png"],
        "sent": ["clear", ["", ["seen.png"]]],
    }


def test_an_artifact_shows_its_picture_or_its_table(run: Run) -> None:
    shown = """
      serve(({ path }) => {
        const sheets = [{ name: "S", headers: ["n"], rows: [["1"]], row_count: 1 }];
        if (path.endsWith("/preview/")) return Response.json({ sheets });
        return new Response(new Blob(["x"], { type: "image/png" }));
      });
      const card = (name, content_type) => {
        const artifact = { artifact_id: name, name, content_type, size: 1 };
        draw(m.ArtifactCard, { key: name, sessionId: "s", artifact });
      };
      card("p.png", "image/png");
      await until(() => box.querySelector("img")?.src.startsWith("blob:"));
      const picture = box.querySelector("img").alt;
      card("t.csv", "text/csv");
      button("Show table").click();
      await until(() => box.querySelector("table"));
      const cells = [...box.querySelectorAll("td")].map(({ textContent }) => textContent);
      return end({ picture, cells, asked: requests.map(({ path }) => path) });
    """
    found = run("studio/parts/chat/details.js", drawn(shown))
    assert (found["picture"], found["cells"]) == ("p.png", ["1"])
    artifact = "/sessions/s/artifacts/"
    assert found["asked"] == [f"{artifact}p.png/download/", f"{artifact}t.csv/preview/"]


APPROVALS = """
  const action = (id) => ({
    action_id: id, session_id: "s", turn_id: `t${id}`, tool_call: { name: "book_seats", arguments: {} },
    created_at: "2026-01-01T00:00:00Z", expires_at: "2036-01-01T00:00:00Z",
  });
  let open = ["1", "2", "3"].map(action);
  const approved = [];
  serve(({ method, path }) => {
    if (method === "POST") {
      const [, id] = path.match(/actions\\/(.*)\\//);
      approved.push(id);
      open = open.filter((each) => each.action_id !== id);
      return Response.json({});
    }
    return Response.json({ actions: open, total: open.length, has_more: false });
  });
  signIn("runtime:approve");
  draw(m.Approvals, { changes: "" });
  const cards = () => [...box.querySelectorAll(".tool-card")];
  const texts = () => cards().map((card) => card.querySelector(".decided, .tool-actions").textContent);
  const ready = () => box.querySelector("button.primary:not([aria-disabled=true])");
  await until(() => cards().length === 3);
  for (const icon of box.querySelectorAll("svg")) icon.remove();
  await until(ready);
  const { left, top } = ready().getBoundingClientRect();
  /** What a click at the place of the first card's button does. */
  const clicked = () => new MouseEvent("click", { bubbles: true, detail: 1 });
  const click = () => document.elementFromPoint(left + 5, top + 5)?.dispatchEvent(clicked());
"""
"""Three calls that wait, and clicks at the place of the first one."""


def test_a_second_click_at_the_same_place_approves_no_other_call(run: Run) -> None:
    impatient = """
      click();
      await until(() => approved.length === 1 && texts()[0] === "Approved");
      const kept = texts();
      // It keeps its place, whatever is clicked there; then the next one comes, and a click does nothing for as long.
      for (let times = 0; times < 15; times += 1) {
        click();
        await elapse(250);
      }
      const meanwhile = [...approved];
      await until(() => cards().length === 2 && ready());
      click();
      await until(() => approved.length === 2);
      return end({ kept, meanwhile, approved });
    """
    found = run("studio/parts/overview/approvals.js", drawn(APPROVALS + impatient))
    assert found == {
        "kept": ["Approved", "ApproveDeny", "ApproveDeny"],
        "meanwhile": ["1"],
        "approved": ["1", "2"],
    }


def test_an_account_shows_a_limit_of_one_request(run: Run) -> None:
    shown = """
      const me = { user_name: "Ada", company_name: "Acme", scopes: [], rate_limit: 1 };
      draw(m.Account, { me });
      return end(box.textContent);
    """
    assert "Limit1 request per minuteKey" in run("studio/parts/frame.js", drawn(shown))
