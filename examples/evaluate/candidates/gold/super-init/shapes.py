class Rectangle:
    name = "rectangle"

    def __init__(self, width, height):
        self.width, self.height = width, height

    def area(self):
        return self.width * self.height


class Square(Rectangle):
    name = "square"

    def __init__(self, side):
        super().__init__(side, side)
