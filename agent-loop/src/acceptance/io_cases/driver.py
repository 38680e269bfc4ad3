import importlib.util, json, os, sys

# Answers go to a descriptor of their own: what the code prints is no answer.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
path, name = sys.argv[1:]
questions = [json.loads(line) for line in sys.stdin]
sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
spec = importlib.util.spec_from_file_location("subject", path)
module = importlib.util.module_from_spec(spec)
sys.modules["subject"] = module


def words(error):
    try:
        return str(error)
    except BaseException:
        return ""


def raised(error):
    return {"raised": [kind.__name__ for kind in type(error).__mro__], "text": str(error)}


# Where there is no function to ask, that is the answer to every question, and none that can be right:
# what is raised while a file is loaded is not what a function of it raises.
unloaded = None
try:
    spec.loader.exec_module(module)
    function = getattr(module, name)
    if not callable(function):
        raise TypeError(name + " is no function")
except BaseException as error:
    unloaded = {"unloaded": type(error).__name__, "text": words(error)}


def answer(arguments):
    if unloaded is not None:
        return unloaded
    try:
        value = function(*arguments)
    except BaseException as error:
        return raised(error)
    told = {"type": type(value).__name__, "text": str(value)}
    try:
        told["json"] = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        pass
    return told


for arguments in questions:
    try:
        line = json.dumps(answer(arguments))
    except BaseException as error:
        line = json.dumps({"raised": ["Unprintable"], "text": type(error).__name__})
    answers.write(line + "\n")
    answers.flush()
