class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("nothing to pay in")
        self.balance += amount

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("nothing to pay out")
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance -= amount
        return amount
