class Cache:
    def __init__(self, size):
        self.size, self.kept = size, {}

    def get(self, key):
        if key not in self.kept:
            return None
        self.kept[key] = self.kept.pop(key)
        return self.kept[key]

    def put(self, key, value):
        self.kept.pop(key, None)
        self.kept[key] = value
        if len(self.kept) > self.size:
            del self.kept[next(iter(self.kept))]
