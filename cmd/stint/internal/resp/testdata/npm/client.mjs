// Asks for CL.THROTTLE as a program that uses the npm client does, and prints
// what it was answered, a line of JSON for each thing asked.
//
//   node client.mjs PORT PASSWORD RESP
import { createClient } from "redis";

const [port, password, resp] = process.argv.slice(2);
const client = createClient({
  RESP: Number(resp),
  name: "web",
  password,
  socket: { host: "127.0.0.1", port: Number(port), reconnectStrategy: false },
});
client.on("error", () => {}); // what fails is printed below
const say = (what, answer) => console.log(JSON.stringify([what, answer]));
const throttle = (key, ...rest) => client.sendCommand(["CL.THROTTLE", key, ...rest.map(String)]);

try {
  await client.connect();
  say("ping", await client.ping());
  say("one", await throttle(`one-${resp}`, 15, 30, 60, 1));
  say("default quantity", await throttle(`one-${resp}`, 15, 30, 60));
  // Sent at once: the client pipelines them.
  const many = Array.from({ length: 100 }, () => throttle(`many-${resp}`, 49, 1, 3600));
  const answers = await Promise.all(many);
  say("allowed of a hundred", answers.filter(([limited]) => limited === 0).length);
  say("in order", answers.map((answer) => answer[2]));
  say("denied", answers[99]);
  say("unknown", await client.sendCommand(["GET", "k"]).catch((e) => e.message));
  say("mistake", await throttle("k", "x", 1, 1).catch((e) => e.message));
  say("after an error", await client.ping());
  await client.close();
} catch (e) {
  say("failed", e.message);
  if (client.isOpen) client.destroy();
}
