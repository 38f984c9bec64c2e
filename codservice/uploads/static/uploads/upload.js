// Sends the chosen file in pieces, so that one of any size arrives over a slow line. A piece that is lost or gets no
// answer is sent again; the service keeps each once. Without this script the form sends the file whole, which may then
// be small only.
const form = document.getElementById("upload");
const error = document.getElementById("upload-error");
const state = document.getElementById("upload-progress");
const TRIES = 8;
const PATIENCE = 90_000; // milliseconds; by then, the service has answered or given the piece up

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

// The answer to a POST; asked again while the line or the service is away, or it is too often.
async function post(address, fields) {
  const body = new FormData();
  body.append("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  for (let number = 0, wait = 0; number < TRIES; number++) {
    if (wait) await pause(wait);
    wait = 2 ** number;
    try {
      const signal = AbortSignal.timeout?.(PATIENCE); // missing in Safari 15: it has a limit of its own
      const answer = await fetch(address, { method: "POST", body, redirect: "manual", signal });
      const isJson = answer.headers.get("Content-Type")?.startsWith("application/json");
      if (isJson && (answer.ok || answer.status === 422)) {
        const said = await answer.json();
        if (!answer.ok) throw new Refused(said.error);
        return said;
      }
      if (answer.status < 500 && answer.status !== 429 && answer.status !== 408) return reload();
      wait = Number(answer.headers.get("Retry-After")) || wait;
    } catch (failure) {
      if (failure instanceof Refused) throw failure;
      wait = Math.min(wait, 15);
    }
  }
  throw new Refused(form.dataset.failed);
}

// The answer is none of the view's own: somebody has signed out meanwhile (a stranger's piece is not even read: 413), or
// in anew, or switched test mode, or the file is gone. The page as it is now.
function reload() {
  form.dataset.sent = "";
  location.reload();
  return new Promise(() => {});
}

class Refused extends Error {}

async function send(file) {
  const bar = state.querySelector("progress");
  const percent = state.querySelector("span");
  bar.value = 0; // an earlier try may have come further
  percent.textContent = "";
  const begun = await post(form.action, { name: file.name, size: file.size, mode: form.elements.mode.value });
  let told = 0;
  for (let start = 0, number = 0, whole = false; start < file.size && !whole; start += begun.bytes, number++) {
    ({ whole } = await post(begun.pieces, { number, data: file.slice(start, start + begun.bytes) }));
    const part = Math.min(start + begun.bytes, file.size) / file.size;
    bar.value = part;
    if (part - told < 0.1 && part < 1) continue; // each is read out
    told = part;
    percent.textContent = `${Math.floor(part * 100)} %`;
  }
  form.dataset.sent = "";
  location.assign(begun.address);
}

// What was said was said of the file before.
form.elements.file.addEventListener("change", ({ target }) => {
  error.hidden = true;
  target.removeAttribute("aria-invalid");
});

form.addEventListener("submit", async (event) => {
  const file = form.elements.file.files[0];
  if (!file) return;
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  error.hidden = true;
  state.hidden = false;
  try {
    await send(file);
  } catch (failure) {
    error.textContent = failure instanceof Refused ? failure.message : form.dataset.failed;
    error.hidden = false;
    state.hidden = true;
    button.disabled = false;
    form.elements.file.focus(); // the button lost it
  }
});

// Shown again as it was left, by going back, it would still be sending.
addEventListener("pageshow", ({ persisted }) => persisted && form.querySelector("button").disabled && reload());
