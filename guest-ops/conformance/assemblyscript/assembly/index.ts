// Prints what a preview 1 host does: `conform-as SCENARIO [ARGUMENT…]`.

import { deep, large, many } from "./bulk";
import { directories } from "./directories";
import { errors, escapes } from "./errors";
import { files } from "./files";
import { links } from "./links";
import { arguments_, output, standardInput } from "./process";
import { sayNumber } from "./text";
import { clocks, randomBytes } from "./times";

const words = process.argv;
const scenario = words.length > 1 ? words[1] : "";
const count = words.length > 2 ? <i32>parseInt(words[2], 10) : 0;

if (scenario == "arguments") arguments_();
else if (scenario == "stdin") standardInput();
else if (scenario == "output") output(count);
else if (scenario == "files") files();
else if (scenario == "directories") directories();
else if (scenario == "links") links();
else if (scenario == "clocks") clocks();
else if (scenario == "random") randomBytes();
else if (scenario == "large") large(count);
else if (scenario == "deep") deep(count);
else if (scenario == "many") many(count);
else if (scenario == "errors") errors();
else if (scenario == "escapes") escapes();
else if (scenario == "exit") {
  sayNumber("leaving with", count);
  process.exit(count);
} else {
  process.stderr.write("unknown scenario '" + scenario + "'\n");
  process.exit(2);
}
