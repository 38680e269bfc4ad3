import threading


class Cache:
    def __init__(self, size):
        self.size, self.kept = size, {}
        self.lock = threading.Lock()

    def get(self, key):
        with self.lock:
            if key not in self.kept:
                return None
            self.kept[key] = self.kept.pop(key)
            return self.kept[key]

    def put(self, key, value):
        with self.lock:
            if self.get(key) is not None:
                self.kept.pop(key)
            self.kept[key] = value
            if len(self.kept) > self.size:
                del self.kept[next(iter(self.kept))]
